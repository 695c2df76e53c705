from amqp_router.protocol.message cimport Message
from amqp_router.protocol.output cimport Output


cdef class Credit:
    cdef public long long limit
    cdef public long long available
    cpdef void change(self, long long limit)
    cpdef void stop(self)


cdef class Consumer:
    cdef public str tag
    cdef public bint no_ack
    cdef public bint exclusive
    cdef public long long priority
    cdef public object arguments
    cdef public object queue
    cdef public long long credit
    cdef public Credit shared
    cdef public Output output
    cdef public long long unacked
    cdef public Consumer following
    cdef public Consumer previous
    cdef public bint parked
    cpdef bint ready(self) except -1
    cpdef void wake(self)
    cpdef void deliver(self, Message message)
    cpdef void cancelled(self)
