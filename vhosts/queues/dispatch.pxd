cimport cython

from vhosts.queues.handle cimport Consumer


cdef Py_ssize_t _STALE_MAX
cdef long long _FOLD_US


cdef class Dispatch:
    cdef public Consumer turn
    cdef public long long priority
    cdef public dict lower
    cdef list _order
    cdef public bint is_single
    cdef public Consumer active
    cdef public bint exclusive
    cdef public dict leaving
    cdef public bint is_blocked
    cdef long long _blocked_from_us
    cdef long long _folded_us
    cdef long long _blocked_us
    cdef double _mean
    cpdef void block(self, long long now_us)
    cpdef void unblock(self, long long now_us)
    cdef void _fold(self, long long now_us)
    cpdef void add(self, Consumer consumer)
    cpdef void remove(self, Consumer consumer, dict others)
    @cython.locals(first=Consumer)
    cpdef void link(self, Consumer consumer)
    cdef void _set_aside(self, long long priority, Consumer first)
    @cython.locals(priority="long long", first=Consumer)
    cdef void _next_ring(self)
    @cython.locals(following=Consumer, previous=Consumer)
    cpdef void unlink(self, Consumer consumer)
    cpdef void park(self, Consumer consumer)
    cpdef void unpark(self, Consumer consumer)


@cython.locals(last=Consumer)
cdef void _join(Consumer consumer, Consumer first)
