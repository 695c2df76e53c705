# The numbers of ``state.py`` for compiled modules; tests/protocol/test_shared_numbers.py holds the two against each
# other.

cdef enum:
    WORKING = 0
    REFUSING = 1
    FAILED = 2
