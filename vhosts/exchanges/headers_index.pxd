# Compiled types of headers_index.py.

cimport cython

from vhosts.exchanges.exchange cimport Binding
from vhosts.spread_map cimport SpreadMap


cdef Py_ssize_t _CRITERIA_MAX
cdef Py_ssize_t _NESTED_SHIFT
cdef Py_ssize_t _PLAIN_SHIFT


cdef class Entry:
    cdef public Binding value
    cdef public list places
    cdef public list rest
    cdef public dict wide
    cdef public bint want_all


cdef class Column:
    cdef public SpreadMap by_value
    cdef public SpreadMap present
    cdef public Py_ssize_t users


cdef class HeadersIndex:
    cdef dict _columns
    cdef SpreadMap _entries
    cdef SpreadMap _wide
    cdef SpreadMap _always
    @cython.locals(column=Column, name=str, place=tuple, same_value=SpreadMap)
    cdef void _enter(self, Entry entry, dict criteria, bint want_all)
    @cython.locals(column=Column, name=str, same_value=SpreadMap)
    cdef void _take_out(self, Entry entry)
    cdef bint _meets(self, str name, dict wide, dict headers, dict values) except -1
    @cython.locals(compared=Py_ssize_t, name=str)
    cdef Py_ssize_t _compare(self, Entry entry, dict values, dict heavy) except? -1
    @cython.locals(column=Column, name=str, same_value=SpreadMap)
    cpdef Py_ssize_t _others(self, tuple place) except -1


cdef Py_ssize_t _looks(tuple field) except -1
