train { data = bin("C:\corpus\new.bin", u16) }
