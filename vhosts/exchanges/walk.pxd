# Compiled types of walk.py.

cimport cython

from vhosts.declared cimport Declared
from vhosts.exchanges.exchange cimport Binding, Exchange, Routable
from vhosts.queues.handle cimport QueueHandle
from vhosts.spread_map cimport SpreadMap
from vhosts.unstored cimport Unstored

cdef int _BY_HEADERS
cdef Py_ssize_t _NAMED_MAX
cdef Py_ssize_t _LOOKS_MAX
cdef Py_ssize_t _EXCHANGE_LOOKS
cdef Py_ssize_t _KEYS_CHECKED
cdef Py_ssize_t _LOOKS_PER_UNIT


cdef class WalkedTable:
    cdef public unsigned long long generation
    cdef public dict exchanges
    cdef public Unstored unstored


@cython.final
cdef class Asked:
    cdef public bytes args
    cdef public bytes properties
    cdef public bint has_cc
    cdef public bint has_bcc
    cpdef bint is_for(self, bytes args, bytes properties) except -1


cdef class Walk:
    cdef public Exchange exchange
    cdef public Asked asked
    cdef public Py_ssize_t checked
    cdef public list queues
    cdef public list durable_queues
    cdef SpreadMap _found
    cdef public dict matched
    cdef public list inner
    cdef public list keepers
    cdef public int decided_by
    cdef public unsigned long long generation
    cdef public Py_ssize_t looks
    cdef WalkedTable _table
    cdef Routable _message
    cdef dict _seen
    cdef list _to_visit
    cdef Py_ssize_t _position
    cdef Exchange _source
    cdef object _matches  # an iterator of any kind
    cdef Py_ssize_t _match_count
    @cython.locals(start=Py_ssize_t, some=list)
    cpdef list next_keys(self)
    @cython.locals(source=Exchange)
    cpdef bint go_on(self) except -1
    @cython.locals(is_named=bint, looks=Py_ssize_t, matched=dict, found=SpreadMap, queues=list, queue=QueueHandle, binding=Binding, destination=Declared)
    cdef bint _follow(self) except -1
    @cython.locals(source=Exchange, alternate=Exchange)
    cdef void _leave(self)
    cdef bint _is_let_go(self) except -1
    cpdef list abandon(self)
    cpdef unsigned long long waits_for(self) except? 0
    cpdef Py_ssize_t units(self) except -1
