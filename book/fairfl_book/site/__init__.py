"""From finished runs to the built book: pages, search, trial pages, downloads, and the lock."""
