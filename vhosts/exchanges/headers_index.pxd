# Compiled types of headers_index.py.

cimport cython

from vhosts.spread_map cimport SpreadMap, roomy, steady_keys


cdef Py_ssize_t _CRITERIA_MAX


cdef class Entry:
    cdef public object value
    cdef public list places
    cdef public list rest
    cdef public dict wide
    cdef public bint want_all


cdef class Column:
    cdef public object by_value
    cdef public object present
    cdef public Py_ssize_t users


cdef class HeadersIndex:
    cdef dict _columns
    cdef SpreadMap _entries
    cdef SpreadMap _wide
    cdef SpreadMap _always
    @cython.locals(entry=Entry, column=Column, name=str, place=tuple)
    cpdef object insert(self, dict criteria, bint want_all, object value)
    @cython.locals(entry=Entry, column=Column, name=str)
    cpdef object remove(self, object value)
    cdef bint _meets(self, str name, object wanted, dict headers, dict values) except -1
    @cython.locals(compared=Py_ssize_t, name=str)
    cdef Py_ssize_t _compare(self, Entry entry, dict values) except? -1
    @cython.locals(column=Column, name=str)
    cpdef Py_ssize_t _others(self, tuple place) except -1


@cython.locals(tag=str)
cpdef object comparable(tuple field)

@cython.locals(tag=str)
cdef object _frozen(tuple field)
