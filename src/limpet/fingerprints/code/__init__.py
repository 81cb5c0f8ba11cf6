"""Code, independent of its layout: from its syntax, or from bytecode without source."""
