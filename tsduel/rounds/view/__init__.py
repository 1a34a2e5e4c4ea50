"""The view of a run: lines of raw/events.jsonl -> events -> a state -> a screen, or one plain line each."""
