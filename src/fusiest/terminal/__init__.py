"""Results and progress on terminals. Nothing here computes: it lays out what the model and the mapper say."""
