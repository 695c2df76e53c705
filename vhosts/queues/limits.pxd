from amqp_router.protocol.message cimport Message
from vhosts.queues.ready.order cimport ReadyOrder

cdef long long _NONE


cdef class Limits:
    cdef public bint is_set
    cdef public long long length
    cdef public long long octets
    cdef public str overflow
    cdef public bint rejects
    cpdef bint has_room(self, ReadyOrder ready, Message message)
    cpdef bint is_exceeded(self, ReadyOrder ready)
    cpdef bint is_exceeded_without(self, ReadyOrder ready, long long newest)
