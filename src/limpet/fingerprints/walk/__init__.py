"""From a step to everything its results depend on: functions, classes, values, side effects."""
