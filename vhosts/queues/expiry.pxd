cimport cython

from amqp_router.protocol.message cimport Message

cdef long long _NO_EXPIRY
cdef long long _NOT_LOOKED_AT


cdef class Expiry:
    cdef public long long ttl_us
    cdef public long long expires_us
    cdef public long long used_us
    cdef public bint is_timed
    cdef public long long head_us
    cdef public object timer  # a Timer; once a deadline, not compiled
    @cython.locals(left_us="long long")
    cpdef void stamp(self, Message message, long long now_us)
