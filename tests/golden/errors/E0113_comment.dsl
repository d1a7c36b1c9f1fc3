// a comment of another language
dim n = 4
