"""How `brokerjobs demo` puts the application `pictures` on: it starts it, breaks it, and reads what was recorded.

materials   the pictures and the sales that it works on
servers     a database and a broker of its own
scene       where everything is: servers, folder, files
cast        the processes, how they are started, killed, stopped and resumed
acts        what happens to them, in order
interrupts  signals, as an exception where the demo waits
figures     what the ledger, the table and the journal say at the end
play        all of it, from an empty folder to an empty folder
voice       what the reader sees meanwhile
"""
