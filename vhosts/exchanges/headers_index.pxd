# Compiled types of headers_index.py.

cimport cython


cdef class Entry:
    cdef public object value
    cdef public Py_ssize_t need
    cdef public Py_ssize_t count
    cdef public unsigned long long mark


cdef class Column:
    cdef public dict by_value
    cdef public dict present


cdef class HeadersIndex:
    cdef dict _columns
    cdef dict _entries
    cdef dict _always
    cdef unsigned long long _mark
    @cython.locals(entry=Entry, column=Column, name=str)
    cpdef object insert(self, dict criteria, bint want_all, object value)
    @cython.locals(entry=Entry, column=Column, name=str, same_value=dict)
    cpdef object remove(self, dict criteria, object value)
    @cython.locals(found=list, columns=dict, column=Column, name=str, entries=dict)
    cpdef list match(self, dict headers)
    @cython.locals(mark="unsigned long long", entry=Entry)
    cdef object _count(self, dict entries, list found)


@cython.locals(tag=str)
cpdef object comparable(tuple field)

@cython.locals(tag=str)
cdef object _frozen(tuple field)
