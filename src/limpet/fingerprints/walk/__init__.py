"""From a step to all that its results depend on: functions, classes, values, effects."""
