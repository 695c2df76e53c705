cimport cython
from cpython.array cimport array

from amqp_router.protocol cimport flags
from amqp_router.protocol.message cimport Message
from persistence.log.queue.queue_log cimport QueueLog
from persistence.memory cimport MemoryBudget
from vhosts.queues.ready.order cimport ReadyOrder
from vhosts.queues.ready.returned cimport Returned

cdef long long _OVERHEAD
cdef long long _WINDOW_BYTES
cdef Py_ssize_t _PLACES
cdef long long _ENTRY_BYTES
cdef long long _LEVEL_BYTES
cdef int _BLOCK_BITS


cdef class Level:
    cdef public array offsets
    cdef public Py_ssize_t spent
    cdef public Returned returned
    cdef array _last
    cdef list _middle
    @cython.locals(block=array)
    cdef append(self, unsigned long long offset)
    cpdef Py_ssize_t places(self) except -1
    cdef put_back(self, Message message)
    @cython.locals(returned=Returned)
    cdef bint has_returned(self)
    cdef bint is_empty(self)
    @cython.locals(returned=Returned)
    cdef bint has_before(self, unsigned long long end)
    @cython.locals(freed=Py_ssize_t)
    cpdef Py_ssize_t take(self) except -1


cdef class DroppedLevels:
    cdef list _levels
    cdef dict _blocks
    cdef bint _settle
    @cython.locals(block=dict)
    cdef Message _held(self, unsigned long long offset)


cdef class PriorityOrder(ReadyOrder):
    cdef list _levels
    cdef Py_ssize_t _top
    cdef unsigned long long _end
    cdef unsigned long long _swept_end
    cdef Py_ssize_t _swept_top
    cdef dict _window
    cdef dict _blocks
    cdef Py_ssize_t _held_count
    cdef long long _held_bytes
    cdef long long _held_bodies
    cdef Py_ssize_t _aside
    cdef long long _aside_bodies
    @cython.locals(budget=MemoryBudget, level=Level)
    cpdef bint push(self, Message message, bint logged) except -1
    cpdef put_back(self, Message message)
    @cython.locals(number=Py_ssize_t, level=Level)
    cdef Level _level(self, Message message)
    @cython.locals(size="long long", block=dict)
    cdef _hold(self, Message message)
    @cython.locals(found=Message, block=dict)
    cdef Message _find(self, unsigned long long offset)
    cdef _count_aside(self, Message message, int sign)
    cdef _take_back(self, Message message)
    @cython.locals(offset="unsigned long long", block=dict)
    cdef _let_go(self, Message message)
    cpdef Message pop(self)
    @cython.locals(message=Message, returned=Returned)
    cdef Message _take(self, Level level)
    @cython.locals(level=Level)
    cpdef Message peek(self, bint eager)
    cpdef void begin_sweep(self, long long now_us)
    @cython.locals(level=Level)
    cpdef Message peek_swept(self)
    cpdef Message pop_swept(self)
    @cython.locals(message=Message, found=Message, log=QueueLog, returned=Returned)
    cdef Message _head_of(self, Level level)
    @cython.locals(log=QueueLog)
    cdef bint _recall(self, Message message) except -1
