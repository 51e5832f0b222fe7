"""Programs to capture: a serving loop shaped like TensorRT-LLM's, with causes that can be planted."""
