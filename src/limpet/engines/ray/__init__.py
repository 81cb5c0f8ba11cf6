"""The Ray engine. Only a gateway process imports Ray, because Ray can end or hang its process."""
