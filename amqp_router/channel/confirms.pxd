cimport cython

from amqp_router.channel.listener cimport ChannelListener
from amqp_router.protocol cimport constants
from amqp_router.protocol._buf cimport Buf
from amqp_router.protocol.tick cimport Tick


cdef class Confirms:
    cdef public unsigned int number
    cdef public Tick tick
    cdef public ChannelListener owner
    cdef public unsigned long long low
    cdef public unsigned long long acked_to
    cdef public unsigned long long top
    cdef public list ahead
    cdef public list fresh
    cdef public list nacked
    cdef public bint owed
    cdef public unsigned long long confirm_total
    @cython.locals(ahead=list)
    cpdef void settle(self, unsigned long long first, unsigned long long last, bint failed)
    @cython.locals(low="unsigned long long", top="unsigned long long")
    cpdef void emit(self, Buf buf)
    cdef void _frame(self, Buf buf, unsigned int method, unsigned long long sequence, unsigned int bits)
