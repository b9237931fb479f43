"""The daemon that wires the rooms: sockets in, answers out."""
