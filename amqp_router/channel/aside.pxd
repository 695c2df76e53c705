cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from vhosts.queues.handle cimport Consumer

cdef long long _HELD_BYTES
cdef long long _HELD_OVERHEAD


cdef class Aside:
    cdef public list gathered
    cdef public bint holds
    cdef public list held
    cdef public long long size
    @cython.locals(kept=Message)
    cpdef bint hold(self, Consumer consumer, Message message) except -1
    @cython.locals(held=list)
    cpdef void let_go(self)
