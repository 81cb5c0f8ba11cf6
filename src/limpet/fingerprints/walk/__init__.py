"""Everything a step's results depend on: functions, classes, values, side effects."""
