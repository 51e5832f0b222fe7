"""trtexec: engines measured by TensorRT's trtexec."""
