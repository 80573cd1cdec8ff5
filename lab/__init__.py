"""What the tests and benchmarks share: daemons, disks, machines, and where things are."""
