cdef class Declared:
    cdef public str name
    cdef public bint durable
    cdef public bint auto_delete
    cdef public bint internal
    cdef public object arguments  # a dict, or a KeptTable
    cdef public object policy  # a named tuple
    cdef public unsigned long long definition_rev
    cdef public bint deleted
