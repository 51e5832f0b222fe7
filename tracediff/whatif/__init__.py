"""What a step would take if something were different: its events replayed with a change applied. See docs/method.md#replay."""
