-- Traces: the context of an attempt's own span (W3C traceparent), for the links of the attempt after it and of whoever gives
-- it up. The worker writes it after its claim, if the span is sampled at all: null says nothing of an attempt but that.
alter table attempt add column traceparent text;
