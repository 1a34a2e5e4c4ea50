"""The view of a run: lines of raw/HOST/events.jsonl -> events -> a state -> a screen, or one plain line each."""
