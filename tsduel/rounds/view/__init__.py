"""The view of a running run: lines of raw/events.jsonl -> events -> a state -> a screen, or one plain line each."""
