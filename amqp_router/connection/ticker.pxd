cimport cython

from amqp_router.protocol.tick cimport Tick
from vhosts.queues.handle cimport QueueHandle


cdef class Ticker:
    cdef object _look_at_memory
    cdef object _cpu_us
    cdef object _unexpected
    cdef Tick _tick
    cdef object _start_round
    cdef object _ready_count
    cdef list _slices
    cdef list _waiting
    cdef bint _queued
    cdef object _call_soon
    cdef void _queue(self, object callback)
    cpdef void run(self)
    @cython.locals(tick=Tick)
    cdef void _run(self, bint with_slices)
    cdef void _run_slices(self)
    @cython.locals(fresh=list, waiting=list, more=list, spent=Py_ssize_t)
    cdef void _pump(self, Tick tick)
    @cython.locals(spent=Py_ssize_t, done=Py_ssize_t, index=Py_ssize_t, more=list, queue=QueueHandle)
    cdef tuple _turn_to(self, list queues, Py_ssize_t budget, Py_ssize_t share)
