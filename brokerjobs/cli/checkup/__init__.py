"""What `brokerjobs doctor` finds: looks at both servers, then checks that are pure functions of what was seen."""
