"""Pages for people: self-contained HTML with pictures inside, light and dark, no script and no network."""
