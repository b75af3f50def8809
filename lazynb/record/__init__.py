"""Recording: LazyTrace, LazyTensor and the trie of recorded traces."""
