"""kernels: names, categories and matching of kernels."""
