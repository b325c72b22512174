"""What `tests.strategies` draws its cases with: workloads, architectures and LoopTrees, small and valid."""
