"""Two results side by side: reading what `fusiest map --json` wrote, and what differs between two of them."""
