"""Which of two runs is better, item by item?"""
