cimport cython
from cpython.array cimport array

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.log.queue.queue_log cimport QueueLog
from persistence.memory cimport MemoryBudget
from vhosts.queues.ready.order cimport ReadyOrder

cdef long long _OVERHEAD
cdef long long _WINDOW_BYTES
cdef Py_ssize_t _SPENT_MAX
cdef long long _ENTRY_BYTES


cdef class Level:
    cdef public array offsets
    cdef public Py_ssize_t spent
    cdef public list returned
    cdef bint is_empty(self)
    cdef bint has_returned(self)
    @cython.locals(freed=Py_ssize_t)
    cdef Py_ssize_t take(self) except -1


cdef class PriorityOrder(ReadyOrder):
    cdef list _levels
    cdef Py_ssize_t _top
    cdef dict _held
    cdef long long _held_bytes
    @cython.locals(budget=MemoryBudget, level=Level)
    cpdef bint push(self, Message message, bint logged) except -1
    cpdef put_back(self, Message message)
    @cython.locals(number=Py_ssize_t, level=Level)
    cdef Level _level(self, Message message)
    @cython.locals(size="long long")
    cdef _hold(self, Message message)
    @cython.locals(level=Level, message=Message)
    cpdef Message pop(self)
    @cython.locals(level=Level, message=Message, found=Message, log=QueueLog)
    cpdef Message peek(self, bint eager)
    @cython.locals(log=QueueLog)
    cdef bint _recall(self, Message message) except -1
