cimport cython

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.memory cimport MemoryBudget
from persistence.log.queue.queue_log cimport QueueLog
from vhosts.queues.ready.order cimport ReadyOrder
from vhosts.queues.ready.returned cimport Returned
from vhosts.queues.ready.ring cimport Ring

cdef long long _WINDOW_BYTES
cdef long long _UNWANTED_MESSAGES
cdef long long _PEEKED_MESSAGES
cdef long long _OVERHEAD
cdef int _GROW_SHIFT


cdef class FifoOrder(ReadyOrder):
    cdef public object pager  # a PageLog; not compiled, and used while memory is short
    cdef public unsigned long long paged_end
    cdef public Ring ring
    cdef public long long ring_bytes
    cdef public long long ring_bodies
    cdef public long long unlogged_bytes
    cdef public long long paged
    cdef public long long paged_bodies
    cdef public Returned requeued
    cdef public dict reread
    cdef public long long backlog
    cdef public unsigned long long cursor
    cdef public bint skips_returned
    cdef public unsigned long long uncounted_from
    cdef public unsigned long long uncounted_to
    @cython.locals(budget=MemoryBudget, size="long long")
    cpdef bint push(self, Message message, bint logged) except -1
    @cython.locals(budget=MemoryBudget, grown=Py_ssize_t)
    cdef _push(self, Message message, long long size)
    cdef bint _page(self, Message message) except -1
    cpdef put_back(self, Message message)
    @cython.locals(ring=Ring, message=Message, size="long long", log=QueueLog)
    cpdef Message pop(self)
    @cython.locals(message=Message, log=QueueLog)
    cpdef Message peek(self, bint eager)
    @cython.locals(message=Message, requeued=Returned)
    cdef Message _pop_requeued(self)
    @cython.locals(found=Message, log=QueueLog)
    cdef bint _restore(self, Message message) except -1
    cdef Message _reread(self, unsigned long long offset)
    @cython.locals(budget=MemoryBudget, message=Message)
    cdef _load(self, Py_ssize_t room)
