module keyferry.dev/test/pause

go 1.24
