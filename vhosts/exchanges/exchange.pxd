# Compiled types of exchange.py. Exchange types are subclasses in Python, also of third parties.

from vhosts.counters cimport ExchangeCounters
from vhosts.declared cimport Declared


cdef class Routable:
    cdef public list keys
    cdef public bytes properties
    cdef dict _headers


cdef class Exchange(Declared):
    cdef public str type
    cdef public str alternate
    cdef public str declared_alternate
    cdef public ExchangeCounters counters
    cdef public Py_ssize_t binding_count


cdef class Binding:
    cdef public Exchange source
    cdef public Declared destination
    cdef public str routing_key
    cdef public bytes encoded
    cdef public object arguments  # a dict, or a KeptTable
