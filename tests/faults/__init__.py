"""The running broker under faults: killed, starved, flooded, its system calls watched."""
