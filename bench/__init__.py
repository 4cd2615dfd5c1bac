"""What things cost, as ratios against a peer measured in the same run. `make bench` runs it all."""
