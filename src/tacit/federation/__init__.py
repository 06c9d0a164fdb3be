"""Training between organisations: kits, the processes of a site, and what a site lets in."""
