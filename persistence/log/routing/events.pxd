# The numbers of ``events.py`` for compiled modules, as constants of C. tests/protocol/test_shared_numbers.py holds
# the two against each other.

cdef enum:
    ROUTING = 4
    RECORD_SIZE = 24
    BATCH_BYTES_MAX = 262144

cdef enum:
    PERSISTENT = 1
    MANDATORY = 2
    UNROUTABLE = 4
    RETURNED = 8
    CONFIRMED = 16
    REFUSED = 32
    SAME_KEY = 0x8000
