from amqp_router.protocol.message cimport Extras


cdef class Taken:
    cdef public dict sources
    cdef public dict producers

    cdef note(self, Extras extras, long long now_us)
