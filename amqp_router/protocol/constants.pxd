# The numbers of ``constants.py`` that compiled modules use, as constants of C. tests/protocol/test_shared_numbers.py
# holds the two against each other.

cdef enum:
    FRAME_METHOD = 1
    FRAME_HEADER = 2
    FRAME_BODY = 3
    FRAME_HEARTBEAT = 8
    FRAME_END = 0xCE
