"""Pictures: functions from frames to HoloViews objects, and the timeline widget."""
