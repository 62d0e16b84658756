"""The parts of the package that need PyTorch."""
