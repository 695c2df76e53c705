from amqp_router.protocol.message cimport Message


cdef class Expiry:
    cdef public long long ttl_us
    cdef public long long expires_us
    cdef public long long used_us
    cdef public bint is_timed
    cdef public long long head_us
    cdef public object timer
    cpdef void stamp(self, Message message, long long now_us)
