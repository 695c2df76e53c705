# The numbers of ``flags.py`` for compiled modules, as constants of C. tests/protocol/test_shared_numbers.py holds
# the two against each other.

cdef enum:
    PERSISTENT = 1
    REDELIVERED = 2
    LOGGED = 4
    SPILLED = 8
    BLIND = 16
    RECORDED = 19

cdef enum:
    ACK = 1
    REJECT = 2
    EXPIRE = 3
    DROP = 4
    DEAD_LETTER = 5
    RETURN = 6
    BY_REJECT = 1 << 8
    BY_EXPIRY = 2 << 8
    BY_LENGTH = 3 << 8
    BY_RETURNS = 4 << 8
    BY_DUE_TIME = 5 << 8

cdef enum:
    HAS_CONTENT_TYPE = 1 << 15
    HAS_CONTENT_ENCODING = 1 << 14
    HAS_HEADERS = 1 << 13
    HAS_DELIVERY_MODE = 1 << 12
    HAS_PRIORITY = 1 << 11
    HAS_CORRELATION_ID = 1 << 10
    HAS_REPLY_TO = 1 << 9
    HAS_EXPIRATION = 1 << 8
    HAS_MESSAGE_ID = 1 << 7
    HAS_TIMESTAMP = 1 << 6
    HAS_TYPE = 1 << 5
    HAS_USER_ID = 1 << 4
    HAS_APP_ID = 1 << 3
    HAS_CLUSTER_ID = 1 << 2
    HAS_LATER = (1 << 11) - 1
    HAS_UNKNOWN = 3
